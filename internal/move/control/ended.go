package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/taredb/tare/internal/localstate"
)

// endedSuffix follows the path of a control socket in the name of the record of its last copy.
const endedSuffix = ".ended"

// longestEnded bounds the bytes of a record that are read, and of an error that is recorded.
const longestEnded = 64 << 10

// An Ended is the record that a copy leaves beside its control socket when it stops. The next copy with that socket
// removes it; a killed copy leaves none.
type Ended struct {
	Version int       `json:"version"` // telemetry.StatusVersion
	PID     int       `json:"pid"`
	From    string    `json:"from"`
	To      string    `json:"to"`
	Table   string    `json:"table,omitempty"` // that tare alter altered
	At      time.Time `json:"at"`
	Error   string    `json:"error"` // empty: it finished
}

// String returns the record as a clause, such as "db1 to db2 stopped at …: …".
func (e *Ended) String() string {
	how, text := "finished", ""
	if e.Error != "" {
		how, text = "stopped", ": "+e.Error
	}
	name := e.Table
	if name == "" {
		name = e.From + " to " + e.To
	}
	return fmt.Sprintf("%s, process %d, %s at %s%s", name, e.PID, how, e.At.UTC().Format("2006-01-02 15:04:05 UTC"), text)
}

// A NotRunningError means that no copy listens at a control socket.
type NotRunningError struct {
	Path   string
	Last   *Ended // nil: none is recorded
	Killed bool   // a copy left its socket and no record
}

func (e *NotRunningError) Error() string {
	switch {
	case e.Last != nil:
		return fmt.Sprintf("no copy listens at %s: the last one, %s", e.Path, e.Last)
	case e.Killed:
		return fmt.Sprintf("no copy listens at %s: the last one was killed, or its host crashed; the command that it was started with resumes it", e.Path)
	}
	return fmt.Sprintf("no copy listens at %s, and none has left a record there: it was started with another option control-socket", e.Path)
}

// recordEnded records that the copy with a socket has stopped. Without room for the record, clients only learn
// that no copy listens.
func recordEnded(path string, e Ended) {
	text, err := json.Marshal(e)
	if err != nil {
		return
	}
	_ = localstate.WriteFile(path+endedSuffix, text)
}

// forgetEnded removes the record of an earlier copy with the socket.
func forgetEnded(path string) error {
	if err := os.Remove(path + endedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("control socket: remove the record of the last copy: %w", err)
	}
	return nil
}

// notRunning returns the error for a socket at which no copy listens.
func notRunning(path string) *NotRunningError {
	e := &NotRunningError{Path: path}
	if f, err := os.Open(path + endedSuffix); err == nil {
		defer f.Close()
		var last Ended
		if json.NewDecoder(io.LimitReader(f, 2*longestEnded)).Decode(&last) == nil {
			e.Last = &last
		}
	}
	info, err := os.Lstat(path)
	e.Killed = e.Last == nil && err == nil && info.Mode()&fs.ModeSocket != 0
	return e
}

// LastStopped returns the most recent stop of a copy with a socket in a directory without running copies, nil if it
// has no trace of one.
func LastStopped(dir string) *NotRunningError {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var last *NotRunningError
	var at time.Time
	for _, x := range entries {
		name := strings.TrimSuffix(x.Name(), endedSuffix)
		if !strings.HasPrefix(name, "copy-") || !strings.HasSuffix(name, ".sock") {
			continue
		}
		info, err := x.Info()
		if err != nil || !info.ModTime().After(at) {
			continue
		}
		if e := notRunning(filepath.Join(dir, name)); e.Last != nil || e.Killed {
			last, at = e, info.ModTime()
		}
	}
	return last
}
