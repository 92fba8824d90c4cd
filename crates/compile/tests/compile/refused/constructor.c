// forbidden_construct: the attribute `__constructor__`
static int x;
__attribute__((aligned(64),__constructor__(101))) static void early(void){x=1;}
void dgemm(int n,const double*A,const double*B,double*C){C[0]=x;}
