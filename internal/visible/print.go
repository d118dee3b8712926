package visible

import (
	"fmt"
	"io"
)

// Fprintf prints one or more lines of a report, as Sprintf formats them.
func Fprintf(w io.Writer, format string, values ...any) (int, error) {
	return io.WriteString(w, Sprintf(format, values...))
}

// Sprintf formats one or more lines of a report. Values that are text are of servers and files: they are formatted as Line returns
// them, so that each line begins as the format says.
func Sprintf(format string, values ...any) string {
	for i, v := range values {
		switch v := v.(type) {
		case string:
			values[i] = Line(v)
		case error:
			values[i] = Line(v.Error())
		case fmt.Stringer:
			values[i] = Line(v.String())
		}
	}
	return fmt.Sprintf(format, values...)
}
