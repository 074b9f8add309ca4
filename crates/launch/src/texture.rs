//! A texture object as a kernel parameter, in the user's notation.
//!
//! ```text
//! texture,f32[64,128]=uniform(1)                     64 rows of 128 texels; point filter, clamp
//! texture,linear,wrap,normalised,f32[64,128]=zeros   with options, in any order
//! texture,float,u8x4[64,128]=picture.npy             four channels; integers are read as floats
//! texture,layered,f32[3,64,128]=iota                 three layers
//! ```

use std::fmt;
use std::path::{Path, PathBuf};

use vgpu::Texture;
use vgpu::texture::{Address, Channel, Filter, Read, Shape};

use super::literal::{initial, is_npy, shape_dims};
use super::{Dtype, Init, npy};

/// The options of a texture, for messages.
const OPTIONS: &str = "point, linear, clamp, border, wrap, mirror, normalised, float, layered";

/// A texture and its contents.
#[derive(Clone, Debug, PartialEq)]
pub struct TextureArgument {
    /// The type of a channel and the number of channels, if they are not those of the file.
    pub element: Option<(Dtype, u8)>,
    /// The extents in texels, outermost first, if they are not those of the file.
    pub dims: Option<Vec<usize>>,
    /// The texels.
    pub contents: Contents,
    /// How texels are combined.
    pub filter: Filter,
    /// What is outside the texture.
    pub address: Address,
    /// Whether integers are read as floats.
    pub read: Read,
    /// Whether coordinates run from 0 to 1.
    pub normalised: bool,
    /// Whether the outermost dimension is that of the layers.
    pub layered: bool,
}

/// The texels of a texture.
#[derive(Clone, Debug, PartialEq)]
pub enum Contents {
    /// Generated.
    Init(Init),
    /// In a file that has not been read.
    File(PathBuf),
}

impl TextureArgument {
    /// Reads `[OPTION,...]DTYPE[xCHANNELS][dims]=INIT` or `[OPTION,...]FILE.npy`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (mut filter, mut address, mut read, mut normalised, mut layered) = (None, None, None, None, None);
        let mut rest = text;
        while let Some((word, after)) = rest.split_once(',').filter(|(word, _)| !word.contains('[')) {
            rest = after;
            let is_first = match word.trim() {
                "point" => filter.replace(Filter::Point).is_none(),
                "linear" => filter.replace(Filter::Linear).is_none(),
                "clamp" => address.replace(Address::Clamp).is_none(),
                "border" => address.replace(Address::Border).is_none(),
                "wrap" => address.replace(Address::Wrap).is_none(),
                "mirror" => address.replace(Address::Mirror).is_none(),
                "normalised" | "normalized" => normalised.replace(true).is_none(),
                "float" => read.replace(Read::NormalisedFloat).is_none(),
                "layered" => layered.replace(true).is_none(),
                other => return Err(format!("`{other}` is not an option of a texture; expected {OPTIONS}")),
            };
            if !is_first {
                return Err(format!("`{}` is given after another option of its kind", word.trim()));
            }
        }
        let (element, dims, contents) = texels(rest.trim())?;
        let texture = TextureArgument {
            element,
            dims,
            contents,
            filter: filter.unwrap_or_default(),
            address: address.unwrap_or_default(),
            read: read.unwrap_or_default(),
            normalised: normalised.unwrap_or_default(),
            layered: layered.unwrap_or_default(),
        };
        // The type and shape of a file are not known yet.
        if texture.dims.is_some() {
            texture.description()?;
        }
        Ok(texture)
    }

    /// Reads the file of the texture, if it has one. A relative path starts in `folder`.
    pub(super) fn with_file(self, folder: &Path) -> Result<Self, String> {
        let Contents::File(path) = &self.contents else { return Ok(self) };
        let file = npy::read(&folder.join(path)).map_err(|error| error.to_string())?;
        let (dtype, channels) = self.element.unwrap_or((file.dtype, 1));
        let dims = self.dims.clone().unwrap_or(file.dims);
        if dtype.bytes() != file.dtype.bytes() {
            return Err(format!("has elements of type {}, not {dtype}", file.dtype));
        }
        let elements = dims.iter().product::<usize>() * usize::from(channels);
        let held = file.elements.len() / dtype.bytes();
        if elements != held {
            return Err(format!("has {held} elements, but the texture has {elements}"));
        }
        let contents = Contents::Init(Init::Elements(file.elements));
        let texture =
            TextureArgument { element: Some((dtype, channels)), dims: Some(dims), contents, ..self };
        texture.description()?;
        Ok(texture)
    }

    /// The texture as the virtual GPU takes it.
    pub fn description(&self) -> Result<Texture, String> {
        let (Some((dtype, channels)), Some(dims)) = (self.element, &self.dims) else {
            return Err("the file of the texture was not read".to_owned());
        };
        let channel = match dtype {
            Dtype::F32 => Channel::F32,
            Dtype::F16 => Channel::F16,
            Dtype::I8 => Channel::I8,
            Dtype::U8 => Channel::U8,
            Dtype::I16 => Channel::I16,
            Dtype::U16 => Channel::U16,
            Dtype::I32 => Channel::I32,
            Dtype::U32 => Channel::U32,
            other => {
                return Err(format!(
                    "a texture cannot have elements of type {other}; expected f32, f16, i8, u8, i16, u16, i32 or u32"
                ));
            }
        };
        let extents: Vec<u32> =
            dims.iter().map(|extent| u32::try_from(*extent).unwrap_or(u32::MAX)).collect();
        let (shape, extents) = match (extents.as_slice(), self.layered) {
            (&[width], false) => (Shape::D1, [width, 1, 1]),
            (&[height, width], false) => (Shape::D2, [width, height, 1]),
            (&[depth, height, width], false) => (Shape::D3, [width, height, depth]),
            (&[layers, width], true) => (Shape::Layered1, [width, 1, layers]),
            (&[layers, height, width], true) => (Shape::Layered2, [width, height, layers]),
            (_, false) => return Err(format!("a texture has 1 to 3 dimensions, not {}", dims.len())),
            (_, true) => {
                return Err(format!(
                    "a layered texture has 2 or 3 dimensions, of which the first are the layers, not {}",
                    dims.len()
                ));
            }
        };
        let texture = Texture {
            filter: self.filter,
            address: self.address,
            read: self.read,
            normalised: self.normalised,
            ..Texture::new(shape, extents, channel, channels)
        };
        texture.validate().map_err(|error| error.to_string())?;
        Ok(texture)
    }

    /// The bytes of all texels; `None` before the file is read.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let (Some((dtype, channels)), Some(dims), Contents::Init(init)) =
            (self.element, &self.dims, &self.contents)
        else {
            return None;
        };
        Some(init.bytes(dtype, dims.iter().product::<usize>() * usize::from(channels)))
    }
}

/// Element, extents and contents: `DTYPE[xCHANNELS][dims]=INIT`, `DTYPE[xCHANNELS][dims]=FILE.npy` or `FILE.npy`.
type Texels = (Option<(Dtype, u8)>, Option<Vec<usize>>, Contents);

fn texels(text: &str) -> Result<Texels, String> {
    const FORM: &str =
        "expected texture,[OPTION,...]DTYPE[dims]=INIT, such as texture,linear,f32[64,64]=zeros";
    let Some((element, rest)) = text.split_once('[') else {
        if is_npy(text) {
            return Ok((None, None, Contents::File(text.into())));
        }
        return Err(FORM.to_owned());
    };
    let (dtype, channels) = match element.split_once('x') {
        None => (element, 1),
        Some((dtype, channels)) => {
            let count = channels.parse().ok().filter(|count| matches!(count, 1 | 2 | 4));
            (dtype, count.ok_or_else(|| format!("a texture has 1, 2 or 4 channels, not `{channels}`"))?)
        }
    };
    let dtype: Dtype = dtype.parse()?;
    let (dims, rest) = rest.split_once(']').ok_or("the `[` has no matching `]`")?;
    let dims = shape_dims(dims)?;
    let init = rest.strip_prefix('=').ok_or("has no contents; add =zeros, =iota, =normal(SEED) ...")?;
    let contents = if is_npy(init) {
        Contents::File(init.into())
    } else {
        let count = dims.iter().product::<usize>() * usize::from(channels);
        Contents::Init(initial(dtype, init, count)?)
    };
    Ok((Some((dtype, channels)), Some(dims), contents))
}

impl fmt::Display for TextureArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.element, &self.dims, &self.contents) {
            (Some((dtype, 1)), Some(dims), _) => write!(f, "texture {dtype}{dims:?}"),
            (Some((dtype, channels)), Some(dims), _) => write!(f, "texture {dtype}x{channels}{dims:?}"),
            (_, _, Contents::File(path)) => write!(f, "texture {}", path.display()),
            _ => f.write_str("texture"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texture(text: &str) -> TextureArgument {
        TextureArgument::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn every_option_is_parsed_and_has_a_default() {
        let plain = texture("f32[2,3]=iota").description().unwrap();
        assert_eq!(plain, Texture::new(Shape::D2, [3, 2, 1], Channel::F32, 1));
        let full = texture("linear, wrap,normalised,float,u8x4[5]=randint(1,0,256)");
        let expected = Texture {
            filter: Filter::Linear,
            address: Address::Wrap,
            normalised: true,
            read: Read::NormalisedFloat,
            ..Texture::new(Shape::D1, [5, 1, 1], Channel::U8, 4)
        };
        assert_eq!(full.description().unwrap(), expected);
        assert_eq!(full.bytes().unwrap().len(), 20);
        let layered = texture("layered,point,border,f16x2[2,3,4]=ones").description().unwrap();
        assert_eq!((layered.shape, layered.extents), (Shape::Layered2, [4, 3, 2]));
        assert_eq!(layered.address, Address::Border);
        assert_eq!(texture("i16[2,3,4]=ones").description().unwrap().shape, Shape::D3);
        assert_eq!(texture("i16x2[2]={1,2,3,4}").bytes().unwrap(), [1, 0, 2, 0, 3, 0, 4, 0]);
    }

    #[test]
    fn an_invalid_texture_is_refused_with_a_reason() {
        for (text, words) in [
            ("", "expected texture,"),
            ("f32[4]", "has no contents"),
            ("liner,f32[4]=zeros", "`liner` is not an option of a texture; expected point, linear"),
            ("point,linear,f32[4]=zeros", "`linear` is given after another"),
            ("f64[4]=zeros", "cannot have elements of type f64"),
            ("f31[4]=zeros", "is not a type"),
            ("f32x3[4]=zeros", "1, 2 or 4 channels"),
            ("f32[4=zeros", "no matching"),
            ("f32[0]=zeros", "no extent may be 0"),
            ("f32[1,2,3,4]=zeros", "1 to 3 dimensions, not 4"),
            ("layered,f32[4]=zeros", "2 or 3 dimensions"),
            ("f32[99999999,2]=zeros", "131072 x 65536"),
            ("wrap,f32[4]=zeros", "need normalised coordinates"),
            ("linear,u8[4]=zeros", "linear filtering needs"),
            ("float,f32[4]=zeros", "integers of 8 and 16 bits"),
            ("f32x2[2]={1,2}", "2 values for 4 elements"),
        ] {
            let error = TextureArgument::parse(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_gives_type_shape_and_texels() {
        let folder = tempfile::tempdir().unwrap();
        let file = npy::write(Dtype::U8, &[2, 4], &[1, 2, 3, 4, 5, 6, 7, 8]);
        std::fs::write(folder.path().join("x.npy"), file).unwrap();
        let read = |text: &str| texture(text).with_file(folder.path());
        let own = read("float,linear,x.npy").unwrap();
        assert_eq!(own.description().unwrap().extents, [4, 2, 1]);
        assert_eq!(own.bytes().unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(read("u8x4[2]=x.npy").unwrap().description().unwrap().channels, 4);
        for (text, words) in [
            ("u8[2]=x.npy", "has 8 elements, but the texture has 2"),
            ("f32[2]=x.npy", "type u8"),
            ("linear,x.npy", "linear filtering needs"),
            ("y.npy", "cannot be read"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
