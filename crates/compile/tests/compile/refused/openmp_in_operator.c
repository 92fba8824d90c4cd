// forbidden_technique/simd: line 3: the technique `openmp`
void dgemm(int n,const double*A,const double*B,double*C){
 _Pragma("omp parallel for")
 for(int i=0;i<n;i++)C[i]=0;
}
