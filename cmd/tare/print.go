package main

import (
	"fmt"
	"io"

	"github.com/taredb/tare/internal/visible"
)

// printf prints one or more lines of a report, as sprintf formats them.
func printf(w io.Writer, format string, values ...any) (int, error) {
	return io.WriteString(w, sprintf(format, values...))
}

// sprintf formats one or more lines of a report. Values that are text are of servers and files: a line break in one becomes a
// blank, so that each line begins as the format says.
func sprintf(format string, values ...any) string {
	for i, v := range values {
		switch v := v.(type) {
		case string:
			values[i] = visible.Line(v)
		case error:
			values[i] = visible.Line(v.Error())
		case fmt.Stringer:
			values[i] = visible.Line(v.String())
		}
	}
	return fmt.Sprintf(format, values...)
}
