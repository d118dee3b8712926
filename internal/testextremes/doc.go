// Package testextremes lists values at the ends of the range of each kind of option, for tests.
package testextremes

// Of returns values of a numeric kind at the ends of its range, beyond it and without a number; nil for other
// kinds.
func Of(kind string) []string {
	switch kind {
	case "int":
		return []string{"-1", "0", "1", "2147483647", "2147483648", "1.5", "x"}
	case "bytes":
		return []string{"-1", "0", "1", "32KiB", "64KiB", "16MiB", "1TiB", "9223372036854775807", "9223372036854775808", "8388608TiB", "1.5MiB", "x"}
	case "duration":
		return []string{"-1s", "0", "1ns", "2562047h47m16.854775807s", "2562048h", "5", "x"}
	case "rate":
		return []string{"-1/s", "0", "1/s", "2147483647/s", "2147483648/s", "1", "1/m", "x"}
	case "number":
		return []string{"-1", "0", "5e-324", "1e300", "1e301", "inf", "nan", "x"}
	case "share":
		return []string{"-0.1", "0", "5e-324", "1", "1.1", "inf", "nan", "x"}
	case "mode":
		return []string{"-1", "0", "0600", "0777", "01000", "8", "x"}
	case "2.0|1.0":
		return []string{"2.0", "1.0", "2", "0.1", "x"}
	case "time":
		return []string{"0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "-100y", "100y", "0s", "x"}
	case "i/n":
		return []string{"0/1", "1/0", "1/1", "2/1", "1/2147483647", "1/99999999999999999999", "x"}
	}
	return nil
}
