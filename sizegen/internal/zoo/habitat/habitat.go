package habitat

import "github.com/taredb/tare/sizegen/internal/zoo"

var (
	_ zoo.Animal = (*Dog)(nil)
	_ zoo.Animal = Bird{}
	_ zoo.Animal = Herd(nil)
	_ zoo.Animal = Snake(0)
	_ zoo.Animal = Name("")
)

type (
	// Dog implements Animal by pointer.
	Dog struct {
		Name string
		Pack []*Dog
	}
	// Bird implements it by value.
	Bird struct{ Song, Nest string }
	// Herd is of pointer shape.
	Herd map[string]*Dog
	// Snake is a number.
	Snake int64
	// Name is a string.
	Name string
)

// Legs returns 4.
func (*Dog) Legs() int { return 4 }

// Legs returns 2.
func (Bird) Legs() int { return 2 }

// Legs returns 4 for each.
func (h Herd) Legs() int { return 4 * len(h) }

// Legs returns 0.
func (Snake) Legs() int { return 0 }

// Legs returns 0.
func (Name) Legs() int { return 0 }
