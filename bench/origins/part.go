package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// partKinds returns the parts that this program runs as separate processes, because their cost is measured.
// Each decodes its case from spec, and stops at the end of in.
func partKinds() map[string]func(spec []byte, in io.Reader, out io.Writer) error {
	return map[string]func([]byte, io.Reader, io.Writer) error{
		"gateway": gatewayPart, "store": storePart, "rows": rowsPart, "import": importPart,
	}
}

// A part is such a process. It stops when its standard input is closed.
type part struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *json.Decoder // its standard output
}

// startPart starts a part of a kind for a case, and decodes its first report into ready.
func startPart(kind string, spec, ready any) (_ *part, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("describe the %s: %w", kind, err)
	}
	p := &part{cmd: exec.Command(exe, "-part", kind, "-case", string(text))}
	p.cmd.Stderr = os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start a %s: %w", kind, err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a %s: %w", kind, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a %s: %w", kind, err)
	}
	p.out = json.NewDecoder(stdout)
	if err := p.out.Decode(ready); err != nil {
		return nil, errors.Join(fmt.Errorf("start a %s: %w", kind, err), p.stop())
	}
	return p, nil
}

// stop closes the part's input and waits for the process.
func (p *part) stop() error { return errors.Join(p.stdin.Close(), p.cmd.Wait()) }

// runPart runs a part in this process.
func runPart(kind, spec string) error {
	run, ok := partKinds()[kind]
	if !ok {
		return fmt.Errorf("there is no part %q", kind)
	}
	return run([]byte(spec), os.Stdin, os.Stdout)
}
