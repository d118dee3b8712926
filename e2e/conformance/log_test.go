//go:build e2e

package conformance

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"unicode/utf8"
)

// A logRecord has the fields of a query log's line that are checked.
type logRecord struct {
	Kind          string `json:"kind"`
	Seq           uint64 `json:"seq"`
	Start         string `json:"start"`
	End           string `json:"end"`
	Command       string `json:"command"`
	ConnectionID  uint64 `json:"connection_id"`
	Digest        string `json:"digest"`
	Normalized    string `json:"normalized"`
	NormalizedCut bool   `json:"normalized_cut"`
	Text          string `json:"text"`
	TextBytes     int    `json:"text_bytes"`
	ErrorNumber   int    `json:"error_number"`
}

// errBadLog reports a line of a query log that is not as its reference page says.
var errBadLog = errors.New("check the query log")

// checkLog checks each line of a gateway's query log after the gateway has ended, and adds the statements to texts.
func checkLog(path string, texts map[string]bool) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	seen := map[uint64]bool{} // lines are up to a second out of order
	n := 0
	for lines.Scan() {
		line := lines.Bytes()
		n++
		var r logRecord
		bad := ""
		switch err := json.Unmarshal(line, &r); {
		case err != nil:
			bad = err.Error()
		case !utf8.Valid(line):
			bad = "no UTF-8"
		case hasInvisible(line):
			bad = "characters that a terminal does not show"
		case seen[r.Seq]:
			bad = "seq is there twice"
		case r.Kind != "statement":
		case r.Kind == "statement" && (r.Start == "" || r.End < r.Start || r.Command == "" || r.ConnectionID == 0):
			bad = "lacks start, end, command or connection_id"
		case r.Normalized != "" && len(r.Digest) != 32:
			bad = "lacks the digest"
		}
		if bad != "" {
			return fmt.Errorf("%w: %s: line %d of %s: %.2000s", errBadLog, bad, n, path, line)
		}
		seen[r.Seq] = true
		if r.Text != "" && r.TextBytes == 0 {
			texts[r.Text] = true
		}
	}
	for seq := range uint64(n) {
		if lines.Err() == nil && !seen[seq+1] {
			return fmt.Errorf("%w: %s has %d lines, but not seq %d", errBadLog, path, n, seq+1)
		}
	}
	return lines.Err()
}

// hasInvisible reports whether a line has a control character, or one that ends lines or changes their direction.
func hasInvisible(line []byte) bool {
	for _, c := range string(line) {
		if c < ' ' || c == 0x7f || c == 0x2028 || c == 0x2029 || c >= 0x202a && c <= 0x202e || c >= 0x2066 && c <= 0x2069 {
			return true
		}
	}
	return false
}

// addCorpus appends statements to a file, one JSON string per line.
func addCorpus(path string, texts map[string]bool) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(file)
	encode := json.NewEncoder(w)
	for text := range texts {
		err = errors.Join(err, encode.Encode(text))
	}
	return errors.Join(err, w.Flush(), file.Close())
}
