// forbidden_construct: calls `work`
static void work(int*p){*p=1;}
static void drop(int*p){work(p);}
void dgemm(int n,const double*A,const double*B,double*C){__attribute__((cleanup(drop)))int x=0;C[0]=x;}
