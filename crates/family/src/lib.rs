//! Kernel families: manifests, typed knobs, constraints, shared-memory layouts and the sources they generate.
