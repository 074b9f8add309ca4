//! SVG figures inside the page. Their colours come from the page's style sheet, so that they follow the light and dark
//! themes. Every mark has a tooltip.

pub mod bars;
pub mod curve;
pub mod heat;
pub mod lineage;
pub mod lines;
pub mod roofline;
mod scale;

use std::fmt::Display;

use super::TimeKind;
use text::escape::html as escape;

/// Every picture is drawn twice, for a wide and for a narrow screen: scaling one picture would make its text
/// unreadable. The style sheet shows one of the two.
const WIDTHS: [(&str, f64); 2] = [("wide", 1056.0), ("narrow", 358.0)];

/// The font size of the style sheet.
const FONT_SIZE: f64 = 12.0;

/// Draws a picture for both widths. `draw` returns the height that it used.
pub fn picture(kind: TimeKind, label: &str, draw: impl Fn(&mut Canvas) -> f64) -> String {
    let draw_width = |(class, width): (&str, f64)| {
        let mut canvas = Canvas { width, body: String::new() };
        let height = draw(&mut canvas);
        format!(
            "<svg class=\"{class} {}\" viewBox=\"0 0 {width} {height:.0}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
            kind.word(),
            escape(label),
            canvas.body
        )
    };
    WIDTHS.map(draw_width).concat()
}

/// The elements of a picture.
#[derive(Debug)]
pub struct Canvas {
    /// The width in pixels.
    pub width: f64,
    body: String,
}

/// Which part of a text is at its position.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    /// The start.
    Start,
    /// The middle.
    Middle,
    /// The end.
    End,
}

impl Canvas {
    /// Whether this is the picture for narrow screens.
    pub fn is_narrow(&self) -> bool {
        self.width < 500.0
    }

    /// Draws text.
    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let class = attribute("class", class);
        self.body += &format!("<text x=\"{x:.1}\" y=\"{y:.1}\"{anchor}{class}>{}</text>\n", escape(text));
    }

    /// Draws a line.
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

    /// Draws a rectangle from its top left corner.
    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str) {
        self.body += &format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"{}/>\n",
            width.max(0.0),
            height.max(0.0),
            attribute("class", class)
        );
    }

    /// Draws a circle.
    pub fn circle(&mut self, (x, y): (f64, f64), radius: f64, class: &str) {
        self.body +=
            &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"{}/>\n", attribute("class", class));
    }

    /// Draws straight lines from point to point.
    pub fn path(&mut self, points: &[(f64, f64)], class: &str) {
        let steps: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        self.body += &format!("<path d=\"M{}\"{}/>\n", steps.join("L"), attribute("class", class));
    }

    /// Draws a group of marks with a tooltip.
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

/// The estimated width of a character. Fonts differ, so the estimate is generous.
const PLAIN: f64 = 0.58 * FONT_SIZE;
/// The estimated width of a bold character, which is very wide in some fonts.
const BOLD: f64 = 0.72 * FONT_SIZE;

/// The estimated width of a text.
fn text_width(text: &str) -> f64 {
    PLAIN * text.chars().count() as f64
}

/// The estimated width of bold text.
fn bold_width(text: &str) -> f64 {
    BOLD * text.chars().count() as f64
}

/// As much of the text as fits, with an ellipsis. The tooltip has all of it.
fn fit(text: &str, width: f64) -> String {
    fit_characters(text, width / PLAIN)
}

/// The same for bold text.
fn fit_bold(text: &str, width: f64) -> String {
    fit_characters(text, width / BOLD)
}

fn fit_characters(text: &str, limit: f64) -> String {
    let limit = (limit + 0.01).max(2.0) as usize;
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    text.chars().take(limit - 1).chain(['\u{2026}']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_with_hostile_text_is_well_formed_at_both_widths() {
        let hostile = "<script>\"'&\u{1}\u{ffff}";
        let svg = picture(TimeKind::Modelled, hostile, |canvas| {
            canvas.titled(hostile, |canvas| canvas.text((1.0, 2.0), Anchor::End, "a", hostile));
            10.0
        });
        let page = format!("<div>{svg}</div>");
        let document = roxmltree::Document::parse(&page).unwrap();
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("svg")).count(), 2);
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(fit("ab", 100.0), "ab");
        let cut = fit(&"\u{e4}\u{1f600}".repeat(50), 70.0);
        assert_eq!(cut.chars().count(), 10);
        assert!(cut.ends_with('\u{2026}'));
    }
}
