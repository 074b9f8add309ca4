//! A launch in CUDA's notation: `scale<float><<<4, 256>>>(x, y, 1000)`.

use std::str::FromStr;

use super::Extent;
use super::literal::is_npy;

/// A launch as the user writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The kernel, with its template arguments.
    pub kernel: String,
    /// Number of blocks.
    pub grid: Extent,
    /// Threads per block.
    pub block: Extent,
    /// Dynamic shared memory in bytes.
    pub shared: u32,
    /// The arguments: names of other arguments, or arguments in the notation of [`super::Argument`].
    pub arguments: Vec<String>,
}

impl FromStr for Call {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "expected KERNEL<<<GRID, BLOCK[, SHARED]>>>(ARGUMENTS)";
        let text = text.trim().trim_end_matches(';');
        let (kernel, rest) = text.split_once("<<<").ok_or(FORM)?;
        let (shape, rest) = rest.split_once(">>>").ok_or(FORM)?;
        let arguments = rest.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).ok_or(FORM)?;
        let kernel = kernel.trim();
        if kernel.is_empty() {
            return Err(FORM.to_owned());
        }
        let shape = split(shape);
        let (grid, block, shared) = match shape.as_slice() {
            [grid, block] => (grid, block, "0"),
            // The stream has no meaning here.
            [grid, block, shared] | [grid, block, shared, _] => (grid, block, shared.as_str()),
            _ => return Err(FORM.to_owned()),
        };
        let shared = shared.parse().map_err(|_| format!("`{shared}` is not a number of bytes"))?;
        let arguments = joined(split(arguments));
        Ok(Call { kernel: kernel.to_owned(), grid: extent(grid)?, block: extent(block)?, shared, arguments })
    }
}

/// `4`, `dim3(4, 2)` or `{4, 2}`.
fn extent(text: &str) -> Result<Extent, String> {
    let inner = text.strip_prefix("dim3").unwrap_or(text).trim();
    inner.trim_start_matches(['(', '{']).trim_end_matches([')', '}']).parse()
}

/// The parts between commas that are outside all brackets.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0_i32;
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        match (c, parts.last_mut()) {
            (',', _) if depth == 0 => parts.push(String::new()),
            (_, Some(last)) => last.push(c),
            (_, None) => {}
        }
    }
    let mut parts: Vec<String> = parts.iter().map(|part| part.trim().to_owned()).collect();
    if parts.last().is_some_and(String::is_empty) {
        parts.pop();
    }
    parts
}

/// Joins the parts of one argument again: the comma of `out,f32[4]` does not separate two arguments.
fn joined(parts: Vec<String>) -> Vec<String> {
    let mut arguments: Vec<String> = Vec::new();
    for part in parts {
        let role =
            arguments.last().map(|last| last.rsplit_once('=').map_or(last.as_str(), |(_, role)| role.trim()));
        match role {
            Some(role)
                if matches!(role, "out" | "inout" | "scratch" | "same" | "tensor")
                    || is_open_texture(role) =>
            {
                if let Some(last) = arguments.last_mut() {
                    *last += &format!(",{part}");
                }
            }
            _ => arguments.push(part),
        }
    }
    arguments
}

/// Whether `role` has options of a texture, but not yet its type or its file.
fn is_open_texture(role: &str) -> bool {
    let options =
        role.strip_prefix("texture").filter(|options| options.is_empty() || options.starts_with(','));
    options.is_some_and(|options| !options.contains('[') && !is_npy(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_are_written_as_in_cuda() {
        let call: Call =
            "k<float, 7> <<< dim3(4, 2), 256, 1024, stream >>> (x, y = out, f32[3,4], i32[2]={1,2}, -1.5f);"
                .parse()
                .unwrap();
        assert_eq!(call.kernel, "k<float, 7>");
        assert_eq!((call.grid, call.block, call.shared), (Extent([4, 2, 1]), Extent([256, 1, 1]), 1024));
        assert_eq!(call.arguments, ["x", "y = out,f32[3,4]", "i32[2]={1,2}", "-1.5f"]);
        let textures =
            "k<<<1,1>>>(texture, linear, f32[4,4]=zeros, t=texture,x.npy, texture,u8[3]={1,2,3}, 1)";
        assert_eq!(
            textures.parse::<Call>().unwrap().arguments,
            ["texture,linear,f32[4,4]=zeros", "t=texture,x.npy", "texture,u8[3]={1,2,3}", "1"]
        );
        assert_eq!("k<<<1,1>>>()".parse::<Call>().unwrap().arguments, Vec::<String>::new());
        for wrong in [
            "",
            "k(x)",
            "k<<<1>>>(x)",
            "<<<1,1>>>()",
            "k<<<1,1>>>",
            "k<<<1,0>>>()",
            "k<<<1,1,x>>>()",
            "k<<<1,1>>>(x",
        ] {
            assert!(wrong.parse::<Call>().is_err(), "{wrong}");
        }
    }
}
