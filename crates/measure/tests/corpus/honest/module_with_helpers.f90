! honest: a module with a type, a pure function and a subroutine beside the entry
module kernels
  use, intrinsic :: iso_c_binding, only: c_int, dp => c_double
  implicit none
  private
  public :: dgemm
  type :: block_size
    integer :: rows = 64
  end type
contains
  pure real(dp) function scaled(x, y)
    real(dp), intent(in) :: x, y
    scaled = x * y
  end function
  subroutine column(n, b, x, y)
    integer, intent(in) :: n
    real(dp), intent(in) :: b(n, n), x(n)
    real(dp), intent(out) :: y(n)
    integer :: k
    y = 0
    do k = 1, n
      y = y + b(:, k) * scaled(x(k), 1.0_dp)
    end do
  end subroutine
  subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
    integer(c_int), value :: n
    real(dp), intent(in) :: a(n, n), b(n, n)
    real(dp), intent(out) :: c(n, n)
    type(block_size) :: size
    integer :: i, from
    do from = 1, n, size%rows
      do i = from, min(n, from + size%rows - 1)
        call column(n, b, a(:, i), c(:, i))
      end do
    end do
  end subroutine
end module
