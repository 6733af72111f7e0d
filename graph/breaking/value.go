package breaking

import "github.com/vektah/gqlparser/v2/ast"

// arguments compares those of a field or of a directive.
func (d *difference) arguments(owner string, was, is ast.ArgumentDefinitionList) {
	for _, a := range was {
		at := owner + "(" + a.Name + ":)"
		if now := is.ForName(a.Name); now == nil {
			d.add(ArgumentRemoved, at, "")
		} else {
			d.value(at, ArgumentChanged, ArgumentNotNull, given{a.Type, a.DefaultValue}, given{now.Type, now.DefaultValue})
		}
	}
	for _, a := range is {
		if was.ForName(a.Name) == nil && (given{a.Type, a.DefaultValue}).required() {
			d.add(ArgumentRequired, owner+"("+a.Name+":)", "%s", a.Type)
		}
	}
}

// input compares the fields of input objects.
func (d *difference) input(was, is *ast.Definition) {
	if was.Directives.ForName("oneOf") == nil && is.Directives.ForName("oneOf") != nil {
		d.add(OneOfAdded, was.Name, "")
	}
	for _, f := range was.Fields {
		at := was.Name + "." + f.Name
		if now := is.Fields.ForName(f.Name); now == nil {
			d.add(InputFieldRemoved, at, "")
		} else {
			d.value(at, InputFieldChanged, InputFieldNotNull, given{f.Type, f.DefaultValue}, given{now.Type, now.DefaultValue})
		}
	}
	for _, f := range is.Fields {
		if was.Fields.ForName(f.Name) == nil && (given{f.Type, f.DefaultValue}).required() {
			d.add(InputFieldRequired, was.Name+"."+f.Name, "%s", f.Type)
		}
	}
}

// given is what a caller may give: an argument or a field of an input.
type given struct {
	kind   *ast.Type
	absent *ast.Value // the default; nil for none
}

// required reports whether it cannot be left out.
func (g given) required() bool { return g.kind.NonNull && g.absent == nil }

// value compares what a caller may give. It may become wider: a type that took
// no null and takes it now.
func (d *difference) value(at, changed, notNull string, was, is given) {
	switch {
	case !sameShape(was.kind, is.kind):
		d.add(changed, at, "%s → %s", was.kind, is.kind)
		return
	case losesNonNull(is.kind, was.kind):
		d.add(notNull, at, "%s → %s", was.kind, is.kind)
	}
	// Of what had to be given, a default is news to nobody.
	if a, b := text(was.absent), text(is.absent); a != b && !was.required() {
		d.add(DefaultChanged, at, "%s → %s", a, b)
	}
}

func text(v *ast.Value) string {
	if v == nil {
		return "none"
	}
	return v.String()
}

// sameShape reports whether two types are equal but for null.
func sameShape(a, b *ast.Type) bool {
	if a.Elem == nil || b.Elem == nil {
		return a.Elem == nil && b.Elem == nil && a.NamedType == b.NamedType
	}
	return sameShape(a.Elem, b.Elem)
}

// losesNonNull reports whether b is null somewhere where a, of the same shape,
// is not.
func losesNonNull(a, b *ast.Type) bool {
	if a.NonNull && !b.NonNull {
		return true
	}
	return a.Elem != nil && losesNonNull(a.Elem, b.Elem)
}
