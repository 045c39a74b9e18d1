// Shows the copy buttons. Without this script they stay hidden and users select the text.
const showCopyButtons = (parent) => {
  if (!navigator.clipboard) {
    return;
  }
  parent.querySelectorAll("button[data-copy]").forEach((button) => {
    button.type = "button";
    button.hidden = false;
  });
};

// The listener is on the document, because htmx replaces parts of pages.
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button[data-copy]");
  const source = button && document.getElementById(button.dataset.copy);
  if (!source) {
    return;
  }
  const label = button.dataset.label ??= button.textContent;
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(source);
    button.textContent = "Press Ctrl+C";
  }
  setTimeout(() => { button.textContent = label; }, 2000);
});

document.addEventListener("htmx:load", (event) => showCopyButtons(event.detail.elt));
showCopyButtons(document);

// Marks fields as invalid while the user types. The server sends the problems.
document.addEventListener("htmx:afterSettle", () => {
  document.querySelectorAll(".problem.field").forEach((problem) => {
    const field = document.getElementById(problem.id.replace("-problem", ""));
    if (problem.textContent) {
      field?.setAttribute("aria-invalid", "true");
    } else {
      field?.removeAttribute("aria-invalid");
    }
  });
});
