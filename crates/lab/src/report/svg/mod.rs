//! Pictures as SVG inside the page. Their colours come from the page's style sheet, so that they follow light and dark;
//! every mark has a title that shows when the pointer rests on it.

pub mod bars;
pub mod curve;
pub mod lineage;
pub mod roofline;
mod scale;

use std::fmt::Display;

use super::Kind;
use super::html::escape;

/// A picture is laid out twice, for a desk and for a phone: scaling one to the other's width would leave letters that
/// nobody can read. The style sheet shows one of the two.
const WIDTHS: [(&str, f64); 2] = [("wide", 720.0), ("narrow", 358.0)];

/// Size of letters, as the style sheet has it.
const LETTERS: f64 = 12.0;

/// Draws for both widths; `draw` is given the canvas and returns the height it took.
pub fn picture(kind: Kind, label: &str, draw: impl Fn(&mut Canvas) -> f64) -> String {
    let of_width = |(class, width): (&str, f64)| {
        let mut canvas = Canvas { width, body: String::new() };
        let height = draw(&mut canvas);
        format!(
            "<svg class=\"{class} {}\" viewBox=\"0 0 {width} {height:.0}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
            kind.word(),
            escape(label),
            canvas.body
        )
    };
    WIDTHS.map(of_width).concat()
}

#[derive(Debug)]
pub struct Canvas {
    pub width: f64,
    body: String,
}

#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    pub fn is_narrow(&self) -> bool {
        self.width < 500.0
    }

    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let class = attribute("class", class);
        self.body += &format!("<text x=\"{x:.1}\" y=\"{y:.1}\"{anchor}{class}>{}</text>\n", escape(text));
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        self.body += &format!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"{}/>\n",
            from.0,
            from.1,
            to.0,
            to.1,
            attribute("class", class)
        );
    }

    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str) {
        self.body += &format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"{}/>\n",
            width.max(0.0),
            height.max(0.0),
            attribute("class", class)
        );
    }

    pub fn circle(&mut self, (x, y): (f64, f64), radius: f64, class: &str) {
        self.body +=
            &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"{}/>\n", attribute("class", class));
    }

    /// Straight lines from point to point.
    pub fn path(&mut self, points: &[(f64, f64)], class: &str) {
        let steps: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        self.body += &format!("<path d=\"M{}\"{}/>\n", steps.join("L"), attribute("class", class));
    }

    /// Marks that belong together, with what they say on hovering.
    pub fn titled(&mut self, title: &str, draw: impl FnOnce(&mut Self)) {
        self.body += &format!("<g><title>{}</title>\n", escape(title));
        draw(self);
        self.body += "</g>\n";
    }
}

fn attribute(name: &str, value: impl Display) -> String {
    let value = value.to_string();
    if value.is_empty() { value } else { format!(" {name}=\"{value}\"") }
}

/// About how wide a text is; fonts differ, so this is on the safe side for most.
fn text_width(text: &str) -> f64 {
    0.58 * LETTERS * text.chars().count() as f64
}

/// The same for bold numbers, which some fonts make very wide.
fn bold_width(text: &str) -> f64 {
    0.72 * LETTERS * text.chars().count() as f64
}

/// As much of the text as fits; its titles hold the whole.
fn fit(text: &str, width: f64) -> String {
    let most = (width / (0.58 * LETTERS) + 0.01).max(2.0) as usize;
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['\u{2026}']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_well_formed_at_both_widths_whatever_it_is_told() {
        let hostile = "<script>\"'&\u{1}\u{ffff}";
        let svg = picture(Kind::Modelled, hostile, |canvas| {
            canvas.titled(hostile, |canvas| canvas.text((1.0, 2.0), Anchor::End, "a", hostile));
            10.0
        });
        let page = format!("<div>{svg}</div>");
        let document = roxmltree::Document::parse(&page).unwrap();
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("svg")).count(), 2);
    }

    #[test]
    fn long_names_are_cut_between_letters() {
        assert_eq!(fit("ab", 100.0), "ab");
        let cut = fit(&"\u{e4}\u{1f600}".repeat(50), 70.0);
        assert_eq!(cut.chars().count(), 10);
        assert!(cut.ends_with('\u{2026}'));
    }
}
