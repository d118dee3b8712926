package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bytes is a number of bytes, formatted like "32MiB".
type Bytes int64

// byteUnits are the units of Bytes, in descending order.
var byteUnits = []struct {
	suffix string
	size   Bytes
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"T", 1 << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {"", 1}}

// String returns the bytes in the largest unit that represents them exactly.
func (b Bytes) String() string {
	for _, u := range byteUnits {
		if b != 0 && b%u.size == 0 && u.suffix != "B" { // longer suffixes come first
			return strconv.FormatInt(int64(b/u.size), 10) + u.suffix
		}
	}
	return "0"
}

// ParseBytes parses a whole number with a unit of KiB, MiB, GiB, TiB or B, or none. As in a MySQL server's
// options, K, M, G and T are equal to KiB and so on.
func ParseBytes(s string) (Bytes, error) {
	for _, u := range byteUnits {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 63)
		if err != nil || Bytes(n) > math.MaxInt64/u.size {
			break
		}
		return Bytes(n) * u.size, nil
	}
	return 0, fmt.Errorf("want a number of bytes such as 65536, 64KiB, 32MiB or 32M, not %q", s)
}

// An Address is a host and a port; "" means off for an optional listener.
type Address string

// Loopback reports whether only this machine can reach the address.
func (a Address) Loopback() bool {
	host, _, err := net.SplitHostPort(string(a))
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

func parseAddress(s string) (Address, error) {
	host, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || strings.ContainsAny(host, "/@ ") {
		return "", fmt.Errorf("want host:port, such as 127.0.0.1:3316, not %q", s)
	}
	return Address(s), nil
}

// parseOptionalAddress also accepts "" and "off".
func parseOptionalAddress(s string) (Address, error) {
	if s == "" || s == "off" {
		return "", nil
	}
	return parseAddress(s)
}

func formatOptionalAddress(a Address) string {
	if a == "" {
		return "off"
	}
	return string(a)
}

// A Rate is a number of events per second, formatted like "10/s"; 0: no limit.
type Rate int

func (r Rate) String() string {
	if r == 0 {
		return "0"
	}
	return strconv.Itoa(int(r)) + "/s"
}

func parseRate(s string) (Rate, error) {
	digits, per := strings.CutSuffix(s, "/s")
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || !per && n != 0 {
		return 0, fmt.Errorf("want a rate such as 10/s, or 0 for no limit, not %q", s)
	}
	return Rate(n), nil
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("want a duration such as 250ms, 30s or 2h, not %q", s)
	}
	return d, nil
}

// formatDuration is Duration.String without zero minutes and seconds.
func formatDuration(d time.Duration) string {
	s := d.String()
	if d == 0 {
		return "0"
	}
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func parseBool(s string) (bool, error) {
	switch s {
	case "true", "yes", "on":
		return true, nil
	case "false", "no", "off":
		return false, nil
	}
	return false, fmt.Errorf("want true or false, not %q", s)
}

func parseString(s string) (string, error) { return s, nil }

func formatString(s string) string { return s }

// String declares an option of free text, such as a path.
func (s *Set) String(p *string, name, kind, def, help string) {
	declare(s, p, Option{Name: name, Kind: kind, Default: def, Help: help}, parseString, formatString)
}

// Bool declares a switch.
func (s *Set) Bool(p *bool, name, help string) {
	declare(s, p, Option{Name: name, Kind: "bool", Default: "false", Help: help}, parseBool, strconv.FormatBool)
}

// Int declares a whole number with a minimum.
func (s *Set) Int(p *int, name, def string, least int, help string) {
	s.IntUpTo(p, name, def, least, math.MaxInt32, help)
}

// IntUpTo declares a whole number with a minimum and a maximum.
func (s *Set) IntUpTo(p *int, name, def string, least, most int, help string) {
	declare(s, p, Option{Name: name, Kind: "int", Default: def, Help: help}, func(text string) (int, error) {
		n, err := strconv.ParseInt(text, 10, 64) // of a larger one the nearest
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return 0, fmt.Errorf("want a whole number, not %q", text)
		}
		if n < int64(least) {
			return 0, fmt.Errorf("want at least %d, not %s", least, text)
		}
		if n > int64(most) {
			return 0, fmt.Errorf("want at most %d, not %s", most, text)
		}
		return int(n), nil
	}, strconv.Itoa)
}

// declareBytes declares a number of bytes with a minimum.
func declareBytes[T ~int | ~int64](s *Set, p *T, name, def string, least Bytes, help string) {
	declareBytesUpTo(s, p, name, def, least, math.MaxInt64, help)
}

// declareBytesUpTo declares a number of bytes with a minimum and a maximum.
func declareBytesUpTo[T ~int | ~int64](s *Set, p *T, name, def string, least, most Bytes, help string) {
	declare(s, p, Option{Name: name, Kind: "bytes", Default: def, Help: help}, func(text string) (T, error) {
		b, err := ParseBytes(text)
		if err == nil && b < least {
			err = fmt.Errorf("want at least %v, not %v", least, b)
		}
		if err == nil && b > most {
			err = fmt.Errorf("want at most %v, not %v", most, b)
		}
		return T(b), err
	}, func(b T) string { return Bytes(b).String() })
}

// Duration declares a duration.
func (s *Set) Duration(p *time.Duration, name, def, help string) {
	declare(s, p, Option{Name: name, Kind: "duration", Default: def, Help: help}, parseDuration, formatDuration)
}

// Rate declares a number of events per second.
func (s *Set) Rate(p *Rate, name, def, help string) {
	declare(s, p, Option{Name: name, Kind: "rate", Default: def, Help: help}, parseRate, Rate.String)
}

// Address declares a host and port.
func (s *Set) Address(p *Address, name, def, help string) {
	declare(s, p, Option{Name: name, Kind: "address", Default: def, Help: help}, parseAddress,
		func(a Address) string { return string(a) })
}

// OptionalAddress declares a host and port that "off" or an empty value turns off.
func (s *Set) OptionalAddress(p *Address, name, def, help string) {
	declare(s, p, Option{Name: name, Kind: "address", Default: def, Help: help}, parseOptionalAddress, formatOptionalAddress)
}

// A word is the text of a value in flags and files.
type word[T comparable] struct {
	text  string
	value T
}

// declareWords declares an option whose value is one of a few words; the first one is the default.
func declareWords[T comparable](s *Set, p *T, name, help string, words ...word[T]) {
	allowed := make([]string, len(words))
	for i, w := range words {
		allowed[i] = w.text
	}
	declare(s, p, Option{Name: name, Kind: strings.Join(allowed, "|"), Default: allowed[0], Help: help},
		func(text string) (v T, err error) {
			i := slices.Index(allowed, text)
			if i < 0 {
				return v, fmt.Errorf("want one of %s, not %q", strings.Join(allowed, ", "), text)
			}
			return words[i].value, nil
		}, func(v T) string {
			return words[slices.IndexFunc(words, func(w word[T]) bool { return w.value == v })].text
		})
}

// Enum declares an option whose value is one of a few words, equal to their text; the first one is the
// default.
func Enum[T ~string](s *Set, p *T, name, help string, values ...T) {
	words := make([]word[T], len(values))
	for i, v := range values {
		words[i] = word[T]{string(v), v}
	}
	declareWords(s, p, name, help, words...)
}

// Lines declares an option with several texts: one per flag, or one per line.
func (s *Set) Lines(p *[]string, name, kind, help string) {
	declare(s, p, Option{Name: name, Kind: kind, Help: help, repeats: true}, func(text string) ([]string, error) {
		var lines []string
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		return lines, nil
	}, func(lines []string) string { return strings.Join(lines, "\n") })
}

// Control declares the URL of an account; its password is masked in all output.
func (s *Set) Control(p *ControlURL, name, help string) {
	declare(s, p, Option{Name: name, Kind: "url", Help: help}, parseControlURL, ControlURL.String)
}

// Backend declares the address of a MySQL server that clients log in to through Tare.
func (s *Set) Backend(p *Address, name, def, help string) {
	declare(s, p, Option{Name: name, Kind: "url", Default: def, Help: help}, parseBackend,
		func(a Address) string { return mysqlScheme + string(a) })
}

// OptionalBackend declares an optional server, "" if there is none.
func (s *Set) OptionalBackend(p *Address, name, help string) {
	declare(s, p, Option{Name: name, Kind: "url", Help: help},
		func(text string) (Address, error) {
			if text == "" {
				return "", nil
			}
			return parseBackend(text)
		},
		func(a Address) string {
			if a == "" {
				return ""
			}
			return mysqlScheme + string(a)
		})
}

var errNoSocket = errors.New("a unix socket cannot be a pass-through backend: " +
	"the server's unix_socket authentication would see the user that runs Tare, not the client; use host:port")
