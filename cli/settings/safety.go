package settings

// safetySettings are about what is allowed.
var safetySettings = []Setting{
	{Key: "safety-policy", wants: "a file", set: setText(func(s *Settings) *string { return &s.SafetyPolicy }),
		Help: "screen prompts and answers by this YAML `FILE`, reloaded when it changes (default: flag only)"},
}
