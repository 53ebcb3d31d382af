//! Writer of HTML and SVG in which nothing can go unescaped: names of tags and attributes are
//! literals of this program, every text and every attribute value is escaped.

use std::fmt::{Display, Write};

/// An attribute.
pub(in crate::report) type Attr<'a> = (&'static str, &'a dyn Display);

/// Markup under construction.
#[derive(Debug, Default)]
pub(in crate::report) struct Markup(String);

impl Markup {
    /// The finished text.
    pub(in crate::report) fn finish(self) -> String {
        self.0
    }

    /// Markup that is part of this program: doctype, style sheet.
    pub(in crate::report) fn literal(&mut self, text: &'static str) {
        self.0.push_str(text);
    }

    /// Escaped text.
    pub(in crate::report) fn text(&mut self, text: impl Display) -> &mut Self {
        escape(&mut self.0, &text);
        self
    }

    /// An element with content.
    pub(in crate::report) fn el(
        &mut self,
        tag: &'static str,
        attrs: &[Attr<'_>],
        content: impl FnOnce(&mut Self),
    ) {
        self.open(tag, attrs);
        content(self);
        self.0.push_str("</");
        self.0.push_str(tag);
        self.0.push('>');
        if BLOCKS.contains(&tag) {
            self.0.push('\n');
        }
    }

    /// An element with nothing but text.
    pub(in crate::report) fn leaf(
        &mut self,
        tag: &'static str,
        attrs: &[Attr<'_>],
        text: impl Display,
    ) {
        self.el(tag, attrs, |m| {
            m.text(text);
        });
    }

    /// An element without content or end tag (`meta`), or an empty SVG shape.
    pub(in crate::report) fn open(&mut self, tag: &'static str, attrs: &[Attr<'_>]) {
        self.0.push('<');
        self.0.push_str(tag);
        for (name, value) in attrs {
            self.0.push(' ');
            self.0.push_str(name);
            self.0.push_str("=\"");
            escape(&mut self.0, value);
            self.0.push('"');
        }
        self.0.push('>');
    }

    /// An empty element with its end tag, as SVG shapes need it.
    pub(in crate::report) fn shape(&mut self, tag: &'static str, attrs: &[Attr<'_>]) {
        self.el(tag, attrs, |_| {});
    }
}

/// After these a line ends, so that the page can be read and compared as text.
const BLOCKS: [&str; 21] = [
    "p", "tr", "li", "table", "section", "h1", "h2", "h3", "div", "svg", "style", "head", "main",
    "g", "header", "nav", "footer", "ul", "dl", "figure", "details",
];

fn escape(out: &mut String, text: &dyn Display) {
    // Writing to a String cannot fail.
    let _ = write!(Escaping(out), "{text}");
}

struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // No control character but these two is allowed in a page.
                c if c.is_control() && c != '\n' && c != '\t' => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_goes_unescaped() {
        let mut m = Markup::default();
        m.el("p", &[("title", &"a\"b'c<d>")], |m| {
            m.text("<script>&\u{1b}[1m");
        });
        let want = "<p title=\"a&quot;b&#39;c&lt;d&gt;\">&lt;script&gt;&amp;\u{fffd}[1m</p>\n";
        assert_eq!(m.finish(), want);
    }
}
