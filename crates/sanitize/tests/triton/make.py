# Makes the PTX beside it: `python make.py` with Triton 3.5.0 and no GPU. `.loc` and debug sections are then left out.
import triton, triton.language as tl
from triton.compiler import ASTSource
from triton.backends.compiler import GPUTarget
@triton.jit
def matmul(a_ptr,b_ptr,c_ptr,M,N,K,sam,sbk,scm,BM:tl.constexpr,BN:tl.constexpr,BK:tl.constexpr):
    pm=tl.program_id(0); pn=tl.program_id(1)
    rm=pm*BM+tl.arange(0,BM); rn=pn*BN+tl.arange(0,BN); rk=tl.arange(0,BK)
    a=a_ptr+rm[:,None]*sam+rk[None,:]; b=b_ptr+rk[:,None]*sbk+rn[None,:]
    acc=tl.zeros((BM,BN),tl.float32)
    for k in range(0,K,BK):
        acc=tl.dot(tl.load(a),tl.load(b),acc)
        a+=BK; b+=BK*sbk
    tl.store(c_ptr+rm[:,None]*scm+rn[None,:],acc.to(tl.float16))
@triton.jit
def matmul_tma(ta,tb,tc,K,BM:tl.constexpr,BN:tl.constexpr,BK:tl.constexpr):
    pm=tl.program_id(0); pn=tl.program_id(1)
    acc=tl.zeros((BM,BN),tl.float32)
    for k in range(0,K,BK):
        a=ta.load([pm*BM,k]); b=tb.load([pn*BN,k])
        acc=tl.dot(a,b.T,acc)
    tc.store([pm*BM,pn*BN],acc.to(tl.float16))
@triton.jit
def matmul_dev(a_ptr,b_ptr,c_ptr,M,N,K,BM:tl.constexpr,BN:tl.constexpr,BK:tl.constexpr):
    ta=tl.make_tensor_descriptor(a_ptr,[M,K],[K,1],[BM,BK]); tb=tl.make_tensor_descriptor(b_ptr,[N,K],[K,1],[BN,BK]); tc=tl.make_tensor_descriptor(c_ptr,[M,N],[N,1],[BM,BN])
    pm=tl.program_id(0); pn=tl.program_id(1)
    acc=tl.zeros((BM,BN),tl.float32)
    for k in range(0,K,BK):
        acc=tl.dot(ta.load([pm*BM,k]),tb.load([pn*BN,k]).T,acc)
    tc.store([pm*BM,pn*BN],acc.to(tl.float16))
@triton.jit
def attention(q_ptr,k_ptr,v_ptr,o_ptr,S,scale,BM:tl.constexpr,BN:tl.constexpr,D:tl.constexpr):
    pm=tl.program_id(0)
    rm=pm*BM+tl.arange(0,BM); rn=tl.arange(0,BN); rd=tl.arange(0,D)
    q=tl.load(q_ptr+rm[:,None]*D+rd[None,:])
    m=tl.full((BM,),-1e30,tl.float32); l=tl.zeros((BM,),tl.float32); acc=tl.zeros((BM,D),tl.float32)
    for n in range(0,S,BN):
        k=tl.load(k_ptr+(n+rn)[:,None]*D+rd[None,:]); v=tl.load(v_ptr+(n+rn)[:,None]*D+rd[None,:])
        s=tl.dot(q,k.T)*scale
        mn=tl.maximum(m,tl.max(s,1)); p=tl.exp2(s-mn[:,None]); al=tl.exp2(m-mn)
        l=l*al+tl.sum(p,1); acc=acc*al[:,None]; acc=tl.dot(p.to(tl.float16),v,acc); m=mn
    tl.store(o_ptr+rm[:,None]*D+rd[None,:],(acc/l[:,None]).to(tl.float16))
tgt=GPUTarget("cuda",90,32)
def comp(fn,sig,ce,name,**o):
    try:
        r=triton.compile(ASTSource(fn=fn,signature={**sig,**{k:'constexpr' for k in ce}},constexprs=ce,attrs={}),target=tgt,options={"num_warps":o.get('w',4),"num_stages":o.get('s',3)})
        open(f'{name}.ptx','w').write(r.asm['ptx']); print(name,r.metadata.shared,r.metadata.num_warps,r.metadata.global_scratch_size, r.metadata.name)
    except Exception as e: print(name,'ERR',repr(e)[:400])
comp(matmul,dict(a_ptr='*fp16',b_ptr='*fp16',c_ptr='*fp16',M='i32',N='i32',K='i32',sam='i32',sbk='i32',scm='i32'),dict(BM=128,BN=128,BK=64),'matmul',w=8)
comp(matmul,dict(a_ptr='*fp16',b_ptr='*fp16',c_ptr='*fp16',M='i32',N='i32',K='i32',sam='i32',sbk='i32',scm='i32'),dict(BM=64,BN=64,BK=64),'matmul64')
comp(matmul_tma,dict(ta='tensordesc<fp16[128,64]>',tb='tensordesc<fp16[128,64]>',tc='tensordesc<fp16[128,128]>',K='i32'),dict(BM=128,BN=128,BK=64),'tma',w=8)
comp(matmul_dev,dict(a_ptr='*fp16',b_ptr='*fp16',c_ptr='*fp16',M='i32',N='i32',K='i32'),dict(BM=128,BN=128,BK=64),'dev',w=8)
comp(attention,dict(q_ptr='*fp16',k_ptr='*fp16',v_ptr='*fp16',o_ptr='*fp16',S='i32',scale='fp32'),dict(BM=64,BN=64,D=64),'attn')
comp(attention,dict(q_ptr='*fp16',k_ptr='*fp16',v_ptr='*fp16',o_ptr='*fp16',S='i32',scale='fp32'),dict(BM=128,BN=64,D=128),'attn128',w=8)
