// Loads the console in the user's language: the chosen one, or the browser's.
const script = document.querySelector<HTMLScriptElement>("script[data-en]")!;
const stored = localStorage.getItem("waypost.language");
const language = stored === "en" || stored === "de" ? stored : navigator.language.toLowerCase().startsWith("de") ? "de" : "en";
document.documentElement.lang = language;
void import(`/console/${script.dataset[language]}`);

export {};
