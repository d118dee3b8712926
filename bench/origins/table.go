package main

import (
	"bufio"
	"embed"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed published
var publishedFiles embed.FS

// A row is one measured value of a case, by the sides of the comparison.
type row struct {
	name, unit     string
	published      [2]string    // old and new as published; "" if they were not
	sides          [2][]float64 // ours: the baseline's and the product's
	publishedRatio string
}

// A table has the rows of an origin, in the order in which they were published, then ours.
type table struct {
	rows []*row
}

// row returns the row of a case, and adds it if it is new.
func (t *table) row(name, unit string) *row {
	for _, r := range t.rows {
		if r.name == name && r.unit == unit {
			return r
		}
	}
	r := &row{name: name, unit: unit}
	t.rows = append(t.rows, r)
	return r
}

// publishedTable returns the published rows of an origin.
func publishedTable(origin string) (*table, error) {
	text, err := publishedFiles.ReadFile(path.Join("published", origin+".txt"))
	if err != nil {
		return nil, fmt.Errorf("published values: %w", err)
	}
	t := new(table)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 4 {
			return nil, fmt.Errorf("published values of %s: %q does not have four fields", origin, line)
		}
		r := t.row(f[0], f[1])
		r.published = [2]string{f[2], f[3]}
		was, errWas := parsePublished(f[2])
		is, errIs := parsePublished(f[3])
		if errWas == nil && errIs == nil && was > 0 {
			r.publishedRatio = fmt.Sprintf("%.2f", is/was)
		}
	}
	return t, nil
}

// parsePublished returns a number with a decimal prefix and a unit.
func parsePublished(s string) (float64, error) {
	digits := strings.TrimRight(s, "µmnkMGBs")
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, fmt.Errorf("value %q: %w", s, err)
	}
	switch suffix := strings.TrimRight(s[len(digits):], "sB"); suffix {
	case "n":
		v *= 1e-9
	case "µ":
		v *= 1e-6
	case "m":
		v *= 1e-3
	case "k":
		v *= 1e3
	case "M":
		v *= 1e6
	case "G":
		v *= 1e9
	}
	return v, nil
}

var benchmarkCPUs = regexp.MustCompile(`-\d+$`)

// benchmarkLines calls each with the name, after "Benchmark", and each value of a benchmark's lines.
func benchmarkLines(r io.Reader, each func(name, unit string, v float64)) error {
	s := bufio.NewScanner(r)
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := benchmarkCPUs.ReplaceAllString(strings.TrimPrefix(f[0], "Benchmark"), "")
		for i := 2; i+1 < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return fmt.Errorf("benchmark line %q: %w", s.Text(), err)
			}
			each(name, f[i+1], v)
		}
	}
	return s.Err()
}

// addSide adds the lines of a file as the values of one side. The first part of a benchmark's name is left out:
// publications do not have it.
func (t *table) addSide(side int, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return benchmarkLines(f, func(name, unit string, v float64) {
		if _, rest, ok := strings.Cut(name, "/"); ok {
			name = rest
		}
		if unit == "MB/s" { // ns/op says the same
			return
		}
		r := t.row(name, unit)
		r.sides[side] = append(r.sides[side], v)
	})
}

// isTime reports whether values of a unit depend on the machine, so that only their ratio is printed.
func isTime(unit string) bool {
	return strings.HasSuffix(unit, "ns/op") || unit == "s/op" || strings.Contains(unit, "CPU")
}

// write writes the rows as a table of Markdown. Of times it has the ratio of the product to the baseline.
func (t *table) write(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| case | unit | published old | new | × | baseline | Tare | × |\n|---|---|---:|---:|---:|---:|---:|---:|\n")
	for _, r := range t.rows {
		ours := [3]string{}
		if len(r.sides[0]) > 0 && len(r.sides[1]) > 0 {
			was, is := median(r.sides[0]), median(r.sides[1])
			if was != 0 {
				ours[2] = fmt.Sprintf("%.2g", is/was)
			}
			if !isTime(r.unit) {
				ours[0], ours[1] = amount(was), amount(is)
			}
			if is > was {
				ours[2] += " (worse)"
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", r.name, r.unit, r.published[0], r.published[1], r.publishedRatio, ours[0], ours[1], ours[2])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// amount formats a value with three digits.
func amount(v float64) string {
	for _, u := range []struct {
		factor float64
		name   string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= u.factor {
			return fmt.Sprintf("%.3g%s", v/u.factor, u.name)
		}
	}
	return fmt.Sprintf("%.3g", v)
}
