// A bytecode interpreter with a dense switch. Each thread has its own program and a stack in local memory.
// Expected: the top of the stack after 24 instructions of the machine below.
// warpsmith: --arch sm_80 --kernel interpret --grid 2 --block 32 --shared 0
// warpsmith: --arg code=u8[64,24]=randint(173,0,20) --arg result=out,i32[64]

extern "C" __global__ void interpret(const unsigned char* code, int* result)
{
    int stack[16];
    for (int k = 0; k < 16; ++k)
        stack[k] = k;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int top = 2;
#pragma unroll 1
    for (int pc = 0; pc < 24; ++pc) {
        const int a = stack[top], b = stack[top - 1];
        switch (code[i * 24 + pc]) {
        case 0: stack[top] = a + b; break;
        case 1: stack[top] = a * 3 + 1; break;
        case 2: stack[top] = a ^ stack[top - 2] << 1; break;
        case 3: if (top < 15) stack[++top] = pc; break;
        case 4: if (top > 2) --top; break;
        case 5: stack[top] = b; stack[top - 1] = a; break;
        case 6: stack[top] = -(a / 2); break;
        case 7: stack[top] = min(a, 1000) + __popc(b); break;
        case 8: stack[top] = a >> (b & 7); break;
        case 9: stack[top] = b ? a % b : 17; break;
        case 10: stack[top - 2] = a - b; break;
        case 11: stack[top] = __clz(a) + b; break;
        case 12: pc += a & 1; break;
        case 13: stack[top] = abs(a) & 0xffff; break;
        case 14: stack[top] = a < b; break;
        case 15: stack[top] = max(a, b) - min(a, b); break;
        case 16: top = top > 3 ? top - 2 : top; break;
        case 17: stack[top] = a * b; break;
        case 18: stack[2] = a; break;
        case 19: stack[top] = ~a; break;
        }
    }
    result[i] = stack[top];
}
