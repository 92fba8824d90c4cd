// forbidden_symbol: `GOMP_parallel_start`
extern void GOMP_parallel_start();
static void f(void*p){}
void dgemm(int n,const double*A,const double*B,double*C){void(*volatile go)()=GOMP_parallel_start;go(f,0,2);}
