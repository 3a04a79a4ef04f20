import{a as p,c as m,sa as o}from"./chunk-6Y7TIW6W.js";m(p(o,null),document.getElementById("app"));
