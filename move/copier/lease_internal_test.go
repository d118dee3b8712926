package copier

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/mysql/binlog"
)

// TestMayResume separates errors after which a run resumes from those that need the operator.
func TestMayResume(t *testing.T) {
	stop := &binlog.StopError{Reason: binlog.StopSchema, Table: "a.b", What: "altered"}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{state.ErrLeaseLost, true},
		{fmt.Errorf("wait: %w", state.ErrLocked), true},
		{io.ErrUnexpectedEOF, true},
		{errors.Join(stop, state.ErrLeaseLost), false},
		{fmt.Errorf("follow: %w", errors.Join(stop, io.EOF)), false},
		{state.ErrState, false},
	} {
		if got := mayResume(tt.err); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.err, got, tt.want)
		}
	}
}
