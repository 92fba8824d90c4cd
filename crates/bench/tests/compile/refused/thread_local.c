// forbidden_construct: thread-local
static _Thread_local double x;
void dgemm(int n,const double*A,const double*B,double*C){x+=A[0];C[0]=x;}
