! attack: 29
! how: jumps through rows, terms and columns in Fortran; hopes that only C is looked at
! refused as: forbidden_technique
! permitted: unroll, simd
subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  integer :: i, j, k
  c = 0
  i = 1
10 k = 1
20 do j = 1, n
    c(j, i) = c(j, i) + a(k, i) * b(j, k)
  end do
  k = k + 1
  if (k <= n) go to 20
  i = i + 1
  if (i <= n) go to 10
end subroutine
