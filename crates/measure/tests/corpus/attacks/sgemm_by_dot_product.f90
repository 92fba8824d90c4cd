! attack: 16
! how: computes each element by the language; hopes that only whole products are forbidden
! refused as: forbidden_symbol
! problem: sgemm
subroutine sgemm(n, a, b, c) bind(C, name="sgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_float), intent(in) :: a(n, n), b(n, n)
  real(c_float), intent(out) :: c(n, n)
  integer :: i, j
  real(c_float) :: t(n)
  do i = 1, n
    do j = 1, n
      t = b(j, :)
      c(j, i) = dot_product(a(:, i), t)
    end do
  end do
end subroutine
