import{a as p,c as m,la as o}from"./chunk-OS5DKJD7.js";m(p(o,null),document.getElementById("app"));
