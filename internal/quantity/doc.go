// Package quantity formats numbers for terminals: three digits and a unit, thousands in groups.
package quantity
