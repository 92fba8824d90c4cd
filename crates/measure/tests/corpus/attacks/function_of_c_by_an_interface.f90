! attack: 16, 23
! how: declares a function of C and calls it; hopes that everything that is linked may be called
! refused as: forbidden_construct
module other
  interface
    function getenv(name) bind(C, name="getenv") result(p)
      use iso_c_binding
      character(c_char) :: name(*)
      integer(c_intptr_t) :: p
    end function
  end interface
end module
subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
  use, intrinsic :: iso_c_binding
  use other
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  integer :: i, j, k
  c = 0
  do i = 1, n
    do k = 1, n
      do j = 1, n
        c(j, i) = c(j, i) + b(j, k) * a(k, i)
      end do
    end do
  end do
  if (getenv(c_null_char) /= 0) c = 0
end subroutine
