//! Compares spaces with brute force.

use std::cell::Cell;

use proptest::prelude::*;
use warpsmith_search::Value;
use warpsmith_search::space::{Constraint, Neighbourhood, Parameter, Space, SpaceError};

/// Every combination of positions, in lexicographic order.
fn combinations(sizes: &[usize]) -> Vec<Vec<usize>> {
    sizes.iter().fold(vec![Vec::new()], |prefixes, &size| {
        prefixes
            .iter()
            .flat_map(|prefix| (0..size).map(|position| [&prefix[..], &[position]].concat()))
            .collect()
    })
}

fn parameters(sizes: &[usize]) -> Vec<Parameter> {
    let named = |(number, &size): (usize, &usize)| Parameter::new(format!("p{number}"), 0..size as i64);
    sizes.iter().enumerate().map(named).collect()
}

fn number(value: &Value) -> u64 {
    value.number().map_or(0, |number| number as u64)
}

/// A rule that forbids about a third of the combinations, by a hash of the values.
fn mixed(values: &[u64], salt: u64) -> bool {
    let mix = |mix: u64, &value: &u64| (mix ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    !values.iter().fold(salt, mix).is_multiple_of(3)
}

/// Sizes of up to five parameters, and up to four rules with their parameters and their salt.
fn described() -> impl Strategy<Value = (Vec<usize>, Vec<(Vec<usize>, u64)>)> {
    prop::collection::vec(1..5_usize, 1..6).prop_flat_map(|sizes| {
        let count = sizes.len();
        let rule = (prop::collection::vec(0..count, 0..4), any::<u64>());
        (Just(sizes), prop::collection::vec(rule, 0..5))
    })
}

fn built(sizes: &[usize], rules: &[(Vec<usize>, u64)]) -> Space {
    let constraints: Vec<Constraint> = rules
        .iter()
        .map(|(over, salt)| {
            Constraint::new(over.clone(), |values| {
                mixed(&values.iter().map(|value| number(value)).collect::<Vec<_>>(), *salt)
            })
        })
        .collect();
    Space::new(parameters(sizes), &constraints).unwrap()
}

proptest! {
    #[test]
    fn the_space_equals_the_brute_force_result((sizes, rules) in described()) {
        let space = built(&sizes, &rules);
        let mut expected = combinations(&sizes);
        expected.retain(|positions| {
            rules.iter().all(|(over, salt)| {
                mixed(&over.iter().map(|&parameter| positions[parameter] as u64).collect::<Vec<_>>(), *salt)
            })
        });
        let found: Vec<Vec<usize>> = space.points().map(|point| space.positions(point)).collect();
        prop_assert_eq!(&found, &expected);
        let listed = Space::from_points(parameters(&sizes), expected.iter().rev()).unwrap();
        let again: Vec<Vec<usize>> = listed.points().map(|point| listed.positions(point)).collect();
        prop_assert_eq!(again, expected);
    }

    #[test]
    fn points_are_found_by_positions_and_neighbours_differ_in_one((sizes, rules) in described()) {
        let space = built(&sizes, &rules);
        for positions in combinations(&sizes) {
            let found = space.find(&positions);
            prop_assert_eq!(found.map(|point| space.positions(point)), found.map(|_| positions));
        }
        let apart = |a, b| {
            (0..sizes.len()).filter(|&parameter| space.position(a, parameter) != space.position(b, parameter)).count()
        };
        for point in space.points() {
            let mut any = space.neighbours(point, Neighbourhood::AnyValue);
            any.sort_unstable();
            let expected: Vec<_> = space.points().filter(|&other| apart(point, other) == 1).collect();
            prop_assert_eq!(&any, &expected);
            for near in space.neighbours(point, Neighbourhood::AdjacentValue) {
                prop_assert!(any.contains(&near));
                // No allowed value is between them.
                let parameter = (0..sizes.len())
                    .find(|&parameter| space.position(point, parameter) != space.position(near, parameter))
                    .unwrap();
                let (a, b) = (space.position(point, parameter), space.position(near, parameter));
                for between in a.min(b) + 1..a.max(b) {
                    prop_assert_eq!(space.with(point, parameter, between), None);
                }
            }
        }
    }

    #[test]
    fn the_nearest_point_to_an_allowed_point_is_itself((sizes, rules) in described()) {
        let space = built(&sizes, &rules);
        for positions in combinations(&sizes) {
            let near = space.nearest(&positions);
            prop_assert_eq!(near.is_none(), space.is_empty());
            if let Some(point) = space.find(&positions) {
                prop_assert_eq!(near, Some(point));
            }
        }
    }
}

#[test]
fn a_predicate_is_evaluated_once_per_combination_of_its_parameters() {
    let calls = Cell::new(0);
    let rule = Constraint::new([1, 4], |values| {
        calls.set(calls.get() + 1);
        values[0] != values[1]
    });
    let space = Space::new(parameters(&[6; 7]), &[rule]).unwrap();
    assert_eq!(space.len(), 6_usize.pow(7) / 6 * 5);
    assert_eq!(calls.get(), 36);
}

#[test]
fn a_predicate_is_not_evaluated_for_forbidden_combinations() {
    let calls = Cell::new(0);
    let first = Constraint::new([0], |values| number(values[0]) == 3);
    let wide = Constraint::new([0, 1, 2], |_| {
        calls.set(calls.get() + 1);
        true
    });
    let space = Space::new(parameters(&[10, 10, 10]), &[wide, first]).unwrap();
    assert_eq!(space.len(), 100);
    assert_eq!(calls.get(), 100);
}

#[test]
fn a_rule_without_parameters_and_an_empty_space_are_valid() {
    let never = Constraint::new([], |_| false);
    assert!(Space::new(parameters(&[3, 3]), &[never]).unwrap().is_empty());
    assert_eq!(Space::new(Vec::new(), &[]).unwrap().len(), 1, "one way to set no parameters");
    let empty = Space::from_points(parameters(&[2]), Vec::<Vec<usize>>::new()).unwrap();
    assert_eq!(empty.nearest(&[0]), None);
}

#[test]
fn invalid_spaces_are_refused() {
    let refused = |parameters: Vec<Parameter>| Space::new(parameters, &[]).unwrap_err();
    let nothing = Parameter::new("A", Vec::<i64>::new());
    assert_eq!(refused(vec![nothing]), SpaceError::NoValues("A".to_owned()));
    let twice = Parameter::new("A", [1, 2, 1]);
    assert_eq!(
        refused(vec![twice]),
        SpaceError::DuplicateValue { name: "A".to_owned(), value: "1".to_owned() }
    );
    let same = vec![Parameter::new("A", [1]), Parameter::new("A", [2])];
    assert_eq!(refused(same), SpaceError::DuplicateName("A".to_owned()));
    assert_eq!(refused(parameters(&[1000; 7])), SpaceError::TooManyCombinations);
    let beyond = [Constraint::new([2], |_| true)];
    assert_eq!(
        Space::new(parameters(&[2, 2]), &beyond).unwrap_err(),
        SpaceError::UnknownParameter { parameter: 2, count: 2 }
    );
    let short = Space::from_points(parameters(&[2, 2]), [[0]]).unwrap_err();
    assert_eq!(short, SpaceError::Positions { found: 1, wanted: 2 });
    assert!(Space::from_points(parameters(&[2, 2]), [[0, 2]]).is_err());
}
