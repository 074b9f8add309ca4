// Double precision functions: exp, log, sin, cos, tan, pow, sqrt, cbrt, erf, tgamma, atan2, fmod, rint and hypot.
// Expected: each column within a few units in the last place of the true value.
// warpsmith: --arch sm_80 --kernel math_f64 --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f64[128]=normal(141) --arg y=f64[128]=uniform(142) --arg out=out,f64[128,14]

extern "C" __global__ void math_f64(const double* x, const double* y, double* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const double a = x[i], b = y[i] + 0.1;
    double* o = out + i * 14;
    o[0] = exp(a);
    o[1] = log(b);
    o[2] = sin(50.0 * a);
    o[3] = cos(a);
    o[4] = tan(a);
    o[5] = pow(b, a);
    o[6] = sqrt(b);
    o[7] = cbrt(a);
    o[8] = erf(a);
    o[9] = tgamma(b + 1.0);
    o[10] = atan2(a, b);
    o[11] = fmod(10.0 * a, b);
    o[12] = rint(7.0 * a) + floor(a) + trunc(3.0 * a);
    o[13] = hypot(a, b) / (1.0 + fabs(a));
}
