package copier

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/taredb/tare/throttle"
)

// A Status is what a copy that runs tells about itself over its control socket. Fields are
// added, never renamed; Version grows when that is not enough.
type Status struct {
	Version  int             `json:"version"` // 1
	PID      int             `json:"pid"`
	From     string          `json:"from"` // address
	To       string          `json:"to"`   // address
	Started  time.Time       `json:"started"`
	Phase    RunPhase        `json:"phase"`
	Tables   []TableStatus   `json:"tables"`
	Progress *CopyProgress   `json:"progress"` // of the rows; null before the first
	Throttle throttle.Status `json:"throttle"`
	Waits    []WaitStatus    `json:"waits"`            // what it waits for now, the oldest first
	Follow   *FollowStatus   `json:"follow,omitempty"` // when it follows the source
	Verify   *VerifyStatus   `json:"verify,omitempty"` // when it verifies
}

// StatusVersion is the form of Status.
const StatusVersion = 1

// A RunPhase is what a copy is at.
type RunPhase string

// The phases of a run, in their order.
const (
	RunPreparing RunPhase = "preparing"
	RunCopying   RunPhase = "copying"
	RunVerifying RunPhase = "verifying"
	RunFollowing RunPhase = "following"
	RunReversing RunPhase = "reversing" // clients are at the target: its changes go back
)

// A TableStatus is how far a table is.
type TableStatus struct {
	Source       string `json:"source"`
	Target       string `json:"target"`
	Phase        string `json:"phase"` // copying, indexing or finished
	Rows         int64  `json:"rows"`  // in the target, by this run and those before it
	RowsEstimate int64  `json:"rows_estimate"`
	Bytes        int64  `json:"bytes"`         // that this run has copied
	Chunks       int    `json:"chunks"`        // cut so far
	ChunksCopied int    `json:"chunks_copied"` // of them
}

// A FollowStatus is how far a copy that follows its source is.
type FollowStatus struct {
	Position         string   `json:"position"`                  // of the source's binary log, that the target has reached
	Lag              string   `json:"lag"`                       // for people
	LagSeconds       *float64 `json:"lag_seconds"`               // null: unknown
	ConfirmedSeconds *float64 `json:"lag_confirmed_seconds_ago"` // age of the last proof; null: there is none
	LagBytes         *int64   `json:"lag_bytes"`                 // null: unknown
	CaughtUp         bool     `json:"caught_up"`

	Outrun *Outrun `json:"outrun,omitempty"` // while the source writes faster than the target takes it: it will not catch up

	HeldSeconds float64 `json:"held_seconds"`   // how long changes have waited for the throttle
	Held        string  `json:"held,omitempty"` // why they are not applied at full speed; empty when they are
}

// A VerifyStatus is how far the verification is.
type VerifyStatus struct {
	Chunks     int `json:"chunks"`     // to be compared
	Compared   int `json:"compared"`   // of them
	Waiting    int `json:"waiting"`    // that differed and are looked at again
	Mismatches int `json:"mismatches"` // rows that differ for sure
}

// ControlDir is the directory for the control sockets of this user's copies: made if it is
// missing, for this user alone.
func ControlDir() (string, error) {
	dir := filepath.Join(os.TempDir(), "tare-"+strconv.Itoa(os.Getuid()))
	runtime := os.Getenv("XDG_RUNTIME_DIR")
	if info, err := os.Stat(runtime); err == nil && info.IsDir() { // su and sudo name one that is not there
		dir = filepath.Join(runtime, "tare")
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make the directory for control sockets: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || info.Mode().Perm()&0o077 != 0 || ok && int(owner.Uid) != os.Getuid() {
		return "", fmt.Errorf("%s must be a directory that only you can enter: others could control your copies, or pretend to be one; remove it, or name the socket with --control-socket", dir)
	}
	return dir, nil
}

// ControlName is the name of the socket of a copy to these tables of the server at addr.
func ControlName(addr string, tables []TableSpec) string {
	var targets []string
	for _, t := range tables {
		t.defaults()
		targets = append(targets, t.target())
	}
	slices.Sort(targets)
	sum := sha256.Sum256([]byte(addr + "\x00" + strings.Join(targets, "\x00")))
	const longest = 40
	name := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, targets[0])
	return fmt.Sprintf("copy-%.*s-%x.sock", longest, name, sum[:4])
}

// ControlSockets are the paths of the control sockets in a directory, in the order of their
// names. Copies that were killed leave theirs behind: nobody answers there.
func ControlSockets(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for control sockets: %w", err)
	}
	var sockets []string
	for _, e := range entries {
		if e.Type()&fs.ModeSocket != 0 && strings.HasPrefix(e.Name(), "copy-") && strings.HasSuffix(e.Name(), ".sock") {
			sockets = append(sockets, filepath.Join(dir, e.Name()))
		}
	}
	return sockets, nil
}

// RunningCopies asks all copies whose sockets are in a directory for their status, by path.
// Sockets at which nobody answers are left out.
func RunningCopies(ctx context.Context, dir string) (map[string]*Status, error) {
	sockets, err := ControlSockets(dir)
	if err != nil {
		return nil, err
	}
	running := make(map[string]*Status)
	for _, path := range sockets {
		c := NewControl(path)
		if s, err := c.Status(ctx); err == nil {
			running[path] = s
		}
		c.Close()
	}
	return running, nil
}
