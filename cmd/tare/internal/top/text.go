package top

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taredb/tare/internal/quantity"
	"github.com/taredb/tare/internal/visible"
)

// cells returns an upper bound of a character's columns: beyond Latin, Greek and Cyrillic many occupy two,
// and truncating a line too early is better than wrapping it.
func cells(r rune) int {
	if r < 0x1100 || r >= 0x2010 && r <= 0x27ff {
		return 1
	}
	return 2
}

// cut truncates a line to width columns; a truncated line ends in "…".
func cut(line string, width int) string {
	at := 0
	for i, r := range line {
		w := cells(r)
		if at+w > width-1 && (at+w > width || i+utf8.RuneLen(r) < len(line)) {
			return line[:i] + "…"
		}
		at += w
	}
	return line
}

// fit returns a value of exactly width columns.
func fit(text string, width int) string {
	text = cut(visible.Line(text), width)
	n := 0
	for _, r := range text {
		n += cells(r)
	}
	return text + strings.Repeat(" ", max(0, width-n))
}

// wrap breaks a text into lines of at most width columns, at blanks if possible.
func wrap(text string, width int) []string {
	var lines []string
	for text != "" {
		at, blank, n := 0, 0, 0
		for i, r := range text {
			if n += cells(r); n > width && i > 0 {
				break
			}
			if at = i + utf8.RuneLen(r); r == ' ' {
				blank = at
			}
		}
		if at < len(text) && blank > 0 {
			at = blank
		}
		lines = append(lines, strings.TrimRight(text[:at], " "))
		text = text[at:]
	}
	return lines
}

// duration formats d with three digits and a unit; one of no call is a dash.
func duration(d time.Duration) string {
	if d <= 0 {
		return "–"
	}
	return quantity.Duration(d)
}

// span formats a duration for people: 45s, 5m, 1h30m.
func span(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	d = d.Round(time.Second)
	if d >= time.Hour {
		d = d.Round(time.Minute)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return strings.TrimSuffix(text, "h0m") + map[bool]string{true: "h"}[strings.HasSuffix(text, "h0m")]
}

// rate formats a number with three digits, or as a whole number in groups of three.
func rate(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 999.5:
		return quantity.Digits(v)
	}
	return quantity.Grouped(strconv.FormatFloat(v, 'f', 0, 64))
}

func perSecond(n uint64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}
