mod patterns;
