package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"

	"github.com/taredb/tare/internal/localstate"
)

var labelsPiece = localstate.Piece{Name: "labels", Lost: "the labels of local series, which continue with those of the options"}

// labelsName is the file with the labels of a directory's series.
const labelsName = "labels.json"

// ReadLabels returns the labels that the history in dir was first opened with; nil if dir has no history.
func ReadLabels(dir string) (map[string]string, error) {
	name := filepath.Join(dir, labelsName)
	text, err := localstate.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var labels map[string]string
	if err == nil {
		err = json.Unmarshal(text, &labels)
	}
	if err == nil {
		err = ValidateLabels(labels)
	}
	if err != nil {
		return nil, fmt.Errorf("read the history's labels from %s: %w", name, err)
	}
	return labels, nil
}

// CheckLabels returns an error if the history in dir belongs to other labels. It ignores unreadable labels:
// OpenArchive sets them aside.
func CheckLabels(dir string, labels map[string]string) error {
	was, err := ReadLabels(dir)
	if err == nil && was != nil && !maps.Equal(was, labels) {
		return fmt.Errorf("the history in %s belongs to %v, not to %v: keep its labels, or use another directory", dir, was, labels)
	}
	return nil
}

// claim records the labels in a new directory, and returns an error if an existing directory has others: the
// head and the blocks that were not shipped would continue under wrong labels.
func claim(dir string, labels map[string]string, state *localstate.Store) error {
	name := filepath.Join(dir, labelsName)
	defer state.Created(name, localstate.File{Piece: labelsPiece})
	was, err := ReadLabels(dir)
	if err != nil {
		if _, ok := state.SetAside(name, labelsPiece, err); !ok {
			return err
		}
	}
	if err := CheckLabels(dir, labels); err != nil || was != nil {
		return err
	}
	text, err := json.Marshal(labels)
	if err == nil {
		err = localstate.WriteFile(name, text)
	}
	if err != nil {
		return fmt.Errorf("note the history's labels: %w", err)
	}
	return nil
}
