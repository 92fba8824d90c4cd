// forbidden_construct: constructor
#define PASTE(a,b) a##b
static int x;
__attribute__((PASTE(constr,uctor))) static void early(void){x=1;}
void dgemm(int n,const double*A,const double*B,double*C){C[0]=x;}
