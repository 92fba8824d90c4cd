! honest: rows of C are columns here; the scalars come by value, and C is read and written
! problem: polybench_gemm
subroutine polybench_gemm(ni, nj, nk, alpha, beta, c, a, b) bind(C, name="polybench_gemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: ni, nj, nk
  real(c_double), value :: alpha, beta
  real(c_double), intent(inout) :: c(nj, ni)
  real(c_double), intent(in) :: a(nk, ni), b(nj, nk)
  integer :: i, j, k
  do i = 1, ni
    do j = 1, nj
      c(j, i) = beta * c(j, i)
    end do
    do k = 1, nk
      do j = 1, nj
        c(j, i) = c(j, i) + alpha * a(k, i) * b(j, k)
      end do
    end do
  end do
end subroutine
