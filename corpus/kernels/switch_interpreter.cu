// A bytecode machine with a dense switch (a jump table), each thread its own program and stack in local memory.
// Expected: the top of the stack after 24 instructions of the eight-instruction machine below.
// warpsmith: --arch sm_80 --kernel interpret --grid 2 --block 32 --shared 0
// warpsmith: --arg code=u8[64,24]=randint(173,0,8) --arg result=out,i32[64]

extern "C" __global__ void interpret(const unsigned char* code, int* result)
{
    int stack[16];
    for (int k = 0; k < 16; ++k)
        stack[k] = k;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int top = 2;
    for (int pc = 0; pc < 24; ++pc) {
        const int op = code[i * 24 + pc];
        switch (op) {
        case 0: stack[top] += stack[top - 1]; break;
        case 1: stack[top] = stack[top] * 3 + 1; break;
        case 2: stack[top] ^= stack[top - 2] << 1; break;
        case 3: if (top < 15) { stack[top + 1] = pc; ++top; } break;
        case 4: if (top > 2) --top; break;
        case 5: { const int s = stack[top]; stack[top] = stack[top - 1]; stack[top - 1] = s; } break;
        case 6: stack[top] = -stack[top] / 2; break;
        default: stack[top] = min(stack[top], 1000) + __popc(stack[top - 1]); break;
        }
    }
    result[i] = stack[top];
}
