//! Ops that are declared by files: an `op.toml`, a reference in numpy, baselines in PyTorch, and families of kernels.
//!
//! [`DeclaredOp`] implements `warpsmith_op::Op` for such a folder. What the file does not say is derived: edge shapes, random
//! problems, smaller problems, input classes, tolerances from the types and the length of sums, and pictures of errors.
//!
//! ```
//! use family::OpFiles;
//! use op::OpProblems as _;
//! use warpsmith_declared::DeclaredOp;
//!
//! let manifest = r#"
//! description = "y = 2 x"
//! reference = "reference.py:double"
//! sizes = { n = { default = 1000 } }
//! axes = { dtype = ["fp32", "fp16"] }
//! work = { flops = "n" }
//!
//! [[arguments]]
//! name = "x"
//! kind = "in"
//! dtype = "dtype"
//! shape = ["n"]
//!
//! [[arguments]]
//! name = "y"
//! kind = "out"
//! dtype = "dtype"
//! shape = ["n"]
//! "#;
//! let files = OpFiles {
//!     name: "double".to_owned(),
//!     label: "double/op.toml".to_owned(),
//!     manifest: manifest.to_owned(),
//!     scripts: vec![("reference.py".to_owned(), "def double(x): return 2 * x".to_owned())],
//!     ..OpFiles::default()
//! };
//! let op = DeclaredOp::new(&files, [])?;
//! assert_eq!(op.problems("n70-fp16").unwrap()[0].to_string(), "n70-fp16");
//! assert_eq!(op.problems("fp16").unwrap()[0].to_string(), "n1000-fp16");
//! assert!(op.problems("n0").is_err());
//! # Ok::<(), family::ManifestErrors>(())
//! ```

mod answer_cache;
mod arrays;
mod conditioning;
mod declaration;
mod declared_op;
mod error_map;
mod fields;
mod file_array;
mod inputs;
mod judge;
mod op;
mod peers;
mod problem;
mod python;
mod read;
mod rows;
mod shapes;
mod sweep;
mod tensors;

pub use declared_op::{DeclaredOp, DeclaredReference, FamilyReference};
pub use inputs::DeclaredInputs;
pub use problem::DeclaredProblem;
