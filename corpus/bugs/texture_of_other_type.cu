// Brightens a picture of bytes. The texture returns the bytes, but the kernel fetches floats, as if the texture had been
// made with cudaReadModeNormalizedFloat.
// warpsmith: --arch sm_80 --kernel brighten --grid 1,4 --block 32
// warpsmith: --arg picture=texture,u8[4,32]=randint(3,0,256) --arg bright=out,f32[4,32]

extern "C" __global__ void brighten(cudaTextureObject_t picture, float* bright)
{
    const int x = threadIdx.x, y = blockIdx.y;
    const float value = tex2D<float>(picture, x + 0.5f, y + 0.5f); //~ texture
    bright[y * 32 + x] = fminf(1.5f * value, 1.0f);
}
