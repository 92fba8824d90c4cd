// forbidden_construct: loader's tables
extern long _DYNAMIC[];
void dgemm(int n,const double*A,const double*B,double*C){C[0]=_DYNAMIC[0];}
