// Virtual functions: objects built in shared memory by one thread, called through their vtables by all.
// Expected: area[i] of shape i mod 3 (square, circle, triangle) scaled by x[i].
// warpsmith: --arch sm_80 --kernel shapes --grid 1 --block 48 --shared 0
// warpsmith: --arg x=f32[48]=uniform(250) --arg area=out,f32[48]

struct Shape {
    float size;
    __device__ explicit Shape(float s) : size(s) {}
    __device__ virtual float area(float scale) const = 0;
};
struct Square : Shape {
    using Shape::Shape;
    __device__ float area(float scale) const override { return size * size * scale; }
};
struct Circle : Shape {
    using Shape::Shape;
    __device__ float area(float scale) const override { return 3.14159265f * size * size * scale; }
};
struct Triangle : Shape {
    using Shape::Shape;
    __device__ float area(float scale) const override { return 0.433012702f * size * size * scale; }
};

extern "C" __global__ void shapes(const float* x, float* area)
{
    __shared__ alignas(16) unsigned char room[3][16];
    const int i = threadIdx.x;
    if (i == 0) {
        new (room[0]) Square(1.5f);
        new (room[1]) Circle(2.0f);
        new (room[2]) Triangle(3.0f);
    }
    __syncthreads();
    const Shape* shape = reinterpret_cast<const Shape*>(room[i % 3]);
    area[i] = shape->area(x[i]);
}
