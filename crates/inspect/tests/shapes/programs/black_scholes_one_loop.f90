! problem: black_scholes
! techniques: none
subroutine prices(n, spot, strike, years, call, put) bind(c, name="black_scholes")
  use iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: spot(n), strike(n), years(n)
  real(c_double), intent(out) :: call(n), put(n)
  real(c_double) :: deviation, d1, d2, due
  integer :: i
  do i = 1, n
    deviation = 0.3d0 * sqrt(years(i))
    d1 = (log(spot(i) / strike(i)) + 0.065d0 * years(i)) / deviation
    d2 = d1 - deviation
    due = strike(i) * exp(-0.02d0 * years(i))
    call(i) = spot(i) * erfc(-d1 / sqrt(2.0d0)) / 2 - due * erfc(-d2 / sqrt(2.0d0)) / 2
    put(i) = due * erfc(d2 / sqrt(2.0d0)) / 2 - spot(i) * erfc(d1 / sqrt(2.0d0)) / 2
  end do
end subroutine prices
