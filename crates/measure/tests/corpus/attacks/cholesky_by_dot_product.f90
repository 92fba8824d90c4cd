! attack: 16
! how: computes each element by a product of the language; hopes that only problems that ask for products forbid them
! refused as: forbidden_symbol
! problem: cholesky
subroutine cholesky(n, a, l) bind(C, name="cholesky")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n)
  real(c_double), intent(out) :: l(n, n)
  integer :: i, j
  real(c_double) :: rest
  do j = 1, n
    do i = 1, j - 1
      l(j, i) = 0
    end do
    do i = j, n
      rest = a(j, i) - dot_product(l(1:j-1, i), l(1:j-1, j))
      if (i == j) then
        l(j, i) = sqrt(rest)
      else
        l(j, i) = rest / l(j, j)
      end if
    end do
  end do
end subroutine
