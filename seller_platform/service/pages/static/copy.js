// Adds a button to every element with `data-copy` that copies its text; the attribute names what is copied.
"use strict";

{
  const SHOWN_MILLISECONDS = 2000;

  const announcement = document.createElement("p");
  announcement.className = "visible-to-readers";
  announcement.setAttribute("aria-live", "polite");

  async function copy(element) {
    try {
      await navigator.clipboard.writeText(element.textContent);
    } catch {
      // Without TLS there is no clipboard: the selected text is copied as with the keyboard.
      getSelection().selectAllChildren(element);
      return document.execCommand("copy");
    }
    return true;
  }

  function addButton(element) {
    const subject = element.dataset.copy;
    const box = document.createElement(element.tagName === "SPAN" ? "span" : "div");
    const button = document.createElement("button");
    box.className = "copyable";
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy ${subject}`);
    button.addEventListener("click", async () => {
      const isCopied = await copy(element);
      button.textContent = isCopied ? "Copied" : "Selected";
      announcement.textContent = isCopied ? `Copied ${subject}` : `Selected ${subject}; copy it with the keyboard`;
      setTimeout(() => {
        button.textContent = "Copy";
        announcement.textContent = "";
      }, SHOWN_MILLISECONDS);
    });
    element.before(box);
    box.append(element, button);
  }

  document.body.append(announcement);
  for (const element of document.querySelectorAll("[data-copy]")) addButton(element);
}
