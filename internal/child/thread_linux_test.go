package child_test

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/child"
	"github.com/taredb/tare/internal/testwait"
)

// TestThreadsStay starts processes that get a signal at the end of the thread that started them. They stay when children
// end that were started later, perhaps on the same threads.
func TestThreadsStay(t *testing.T) {
	const n = 20
	var others []*exec.Cmd
	for range n {
		cmd := exec.Command("sleep", "3600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		others = append(others, cmd)
	}
	for range n {
		c, err := child.Start("a child", exec.Command("true"), nil)
		if err != nil {
			t.Fatal(err)
		}
		testwait.Receive(t, "the child's end", c.Done)
	}
	for _, cmd := range others {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.String(); got != "signal: terminated" {
			t.Errorf("a process ended by %s", got)
		}
	}
}
