// forbidden_construct: `constructor`
[[gnu::constructor]] static void early(void){}
void dgemm(int n,const double*A,const double*B,double*C){}
