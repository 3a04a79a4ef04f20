import{a as p,c as m,la as o}from"./chunk-6CSN2ZIY.js";m(p(o,null),document.getElementById("app"));
