// forbidden_construct: `work` holds a loop
static void work(int*p){for(int i=0;i<9;i++)*p+=i;}
static void drop(int*p){work(p);}
void dgemm(int n,const double*A,const double*B,double*C){__attribute__((cleanup(drop)))int x=0;C[0]=x;}
